"""What a KafScale cluster says of its topics in etcd: beside the segments in its bucket, a help, never needed."""
