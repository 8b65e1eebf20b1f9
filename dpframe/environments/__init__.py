"""Sets of packages in which black boxes run: found here, built when somebody asks for it."""
