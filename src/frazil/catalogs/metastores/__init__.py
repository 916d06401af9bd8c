"""Metastores that hold one pointer per Iceberg table, Glue and Hive: names, columns they show, places of files, calls."""
