"""Child servers, signals, ports and waiting: the machine that the laboratory runs on."""
