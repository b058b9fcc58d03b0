"""What is asked of the operating system: folders, files, passwords, threads; and foreign text made safe."""
