"""What is minimised, over what: functions, operators, measures, losses."""
