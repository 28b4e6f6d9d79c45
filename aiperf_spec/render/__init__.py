"""Turn results into rich renderables and lines of text; prints nothing."""
