"""Leader state of a partition: high watermark, leader epochs, producers, fetch sessions."""
