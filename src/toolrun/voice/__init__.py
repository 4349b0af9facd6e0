"""A voice gateway: utterances in, tools in the middle, spoken answers out."""
