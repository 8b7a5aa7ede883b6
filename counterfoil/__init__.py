"""What people who write workflows use beside `workflows.authoring`: the test kit, `counterfoil.testing`."""
