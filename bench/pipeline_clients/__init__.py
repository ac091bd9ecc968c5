"""The programs that the pipeline's scenarios run, and the modules that watch them."""
