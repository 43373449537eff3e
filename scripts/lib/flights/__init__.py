"""The pipeline of config/flights, run and checked by the demo."""
