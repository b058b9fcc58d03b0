"""Settings: every option declared once, and the file that keeps their values."""
