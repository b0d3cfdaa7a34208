"""The slow, plain-Python reference model of Escoba that the engine is compared with.

It is written from the project's rules page alone and must import nothing of the engine.
"""
