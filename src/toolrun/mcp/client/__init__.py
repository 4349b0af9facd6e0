"""The servers whose tools we use: one supervised session each."""
