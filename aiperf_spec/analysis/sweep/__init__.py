"""What a sweep says: which draft length pays, at which load."""
