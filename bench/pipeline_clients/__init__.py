"""The programs that the pipeline's scenarios run, and who watches them."""
