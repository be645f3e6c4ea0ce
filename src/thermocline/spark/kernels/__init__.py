"""What runs inside a Spark task: Arrow in, Parquet out, bounded memory. Nothing here touches the driver or the JVM."""
