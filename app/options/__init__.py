"""What can be set in Preferences: every option declared once; standard library only."""
