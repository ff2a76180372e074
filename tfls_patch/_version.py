"""The one place that holds the version; ``setup.py`` reads this file as text."""

__version__ = "1.0.0"
