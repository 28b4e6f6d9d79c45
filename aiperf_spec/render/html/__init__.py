"""Results as one HTML file: tables and drawings inline, without scripts or anything to be fetched."""
