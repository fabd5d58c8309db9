"""`lmc bench`: a program measured compiled and uncompiled, and without each thing that helps."""
