"""The application: a Qt window in front of an engine process. It never imports a tensor library."""
