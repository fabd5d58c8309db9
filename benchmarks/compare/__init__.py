"""lmc and its peers side by side: processes, measurements, tables, the page."""
