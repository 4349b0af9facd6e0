"""Speech in and out: engines that recognise and synthesise speech, each imported on first use."""
