"""A recorded topic with faults in it, and a list of the evidence that a reader must find."""
