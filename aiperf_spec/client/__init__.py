"""Talk HTTP to the server."""
