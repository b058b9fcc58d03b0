"""The application's life as a program: one at a time, what a crash leaves behind, and news of newer versions."""
