"""`lmc check`: compare every way of running a program on drawn arguments and answers."""
