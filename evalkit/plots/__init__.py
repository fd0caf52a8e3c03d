"""Figures from result tables with matplotlib, each with an alt text that says what it shows."""
