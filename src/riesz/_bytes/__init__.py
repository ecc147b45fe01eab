"""Values as bytes: files that are whole or refused, and digests."""
