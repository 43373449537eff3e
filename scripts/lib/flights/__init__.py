"""The pipeline of examples/flights, run and checked by the demo."""
