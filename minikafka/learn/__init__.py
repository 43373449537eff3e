"""Learn mode: a simulated cluster that is played. A ``Recipe`` decides everything that happens."""
