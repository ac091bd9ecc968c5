"""The audit of Java producers: an interceptor in Java, and the jar that is made of it."""
