"""What files of functions share."""

ROOMS = 4
