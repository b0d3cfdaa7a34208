"""Tests of the adapters, one file for each framework; see ``scripted`` for what they share."""
