"""What survives when the application or its engine is killed."""
