"""Several runs against one."""
