-- Who answers an utterance, so that another process can go on with it when this one is killed.
ALTER TABLE utterance ADD COLUMN process INTEGER;   -- null once it is answered
ALTER TABLE utterance ADD COLUMN conversation TEXT; -- the name of the one in which it is answered
