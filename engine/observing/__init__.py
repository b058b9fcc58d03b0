"""What a watcher is told of the rounds while they happen."""
