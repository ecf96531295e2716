"""Files that arrive in a folder or a bucket, each of them loaded once."""
