"""What a script has next to it."""

VALUE = "from next door"
