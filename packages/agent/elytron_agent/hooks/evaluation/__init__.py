"""Evaluation of turn hooks: the ten rates, over turns that ship or over those of a host's file."""
