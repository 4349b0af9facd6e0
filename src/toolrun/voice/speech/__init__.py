"""Speech in and out: engines that hear and speak, each imported when it is made."""
