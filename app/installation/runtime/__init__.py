"""The engine's runtime, a Python with torch: found, made from checked wheels, repaired and removed. No Qt."""
