"""Every fault by every kind of contract: what was sent, where the job ended, how many effects the receiver counts."""
