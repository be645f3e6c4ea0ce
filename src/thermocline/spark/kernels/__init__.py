"""The code inside Spark tasks: Arrow in, Parquet out, bounded memory. It uses neither the driver nor the JVM."""
