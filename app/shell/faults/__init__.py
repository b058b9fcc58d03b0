"""What went wrong: crashes of a former start, and errors of threads."""
