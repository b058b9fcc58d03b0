"""The application's life as a program: one instance, crash reports, signals, and news of updates."""
