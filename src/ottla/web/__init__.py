"""What all services share: settings, bodies and answers over HTTP, errors, and the server they run in."""
