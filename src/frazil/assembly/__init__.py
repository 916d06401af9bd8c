"""The one place where rooms meet and tasks start."""
