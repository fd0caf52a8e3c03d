"""Widgets for JupyterLab, a module each; what they show stands in the static report too."""
