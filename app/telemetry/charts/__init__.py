"""The charts of the telemetry panel: axes, lines, columns and legends."""
