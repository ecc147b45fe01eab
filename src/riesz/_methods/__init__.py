"""How to move: schemes, transports, retractions, step sizes, auto, and the names of their compositions."""
